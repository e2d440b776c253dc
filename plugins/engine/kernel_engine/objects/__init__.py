"""Objects: who owns and who borrows them, where their values lie, and how they are read and waited for."""
