"""The operations of the API server in memory: read, write, patch, bind and evict, with admission."""
