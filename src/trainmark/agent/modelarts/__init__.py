"""The agent inside a worker of a cloud training job.

`worker` decides which of the processes that the service starts becomes the node's agent, and fills in its plan. Called
by a verb of the agent; the modelarts launcher knows the names of the channels.
"""
