//go:build tools

// Package tools keeps what is built here in go.mod.
package tools

import _ "sigs.k8s.io/kwok/cmd/kwok"
