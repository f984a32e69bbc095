"""The resources of the console's HTTP API, one file each; every file has its `ROUTES`."""
