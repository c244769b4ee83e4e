"""Load for a worker, open loop: requests come when they come, whatever became of those before."""
