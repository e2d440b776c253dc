"""Route requests to replicas: a router in every process that sends requests.

`chooser.py` decides, `request_queue.py` lets requests wait; `router.py` is their shell, with links and news of the
controller.
"""
