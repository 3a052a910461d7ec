//go:build tools

// Package tools keeps what is built here in go.mod.
package tools

import _ "go.etcd.io/etcd/server/v3"
