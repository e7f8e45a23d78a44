//go:build !unix

package command

// starting returns nothing, because there is no gpustall torch on this system.
func starting(string) string { return "" }
