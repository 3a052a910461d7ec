"""The fields of Kubernetes objects that we read, as msgspec structs by kind."""
