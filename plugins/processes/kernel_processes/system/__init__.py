"""Operating system services: processes and how they end, their titles, limits and logs; independent of sessions."""
