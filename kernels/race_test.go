//go:build race

package kernels

// raceEnabled: interpreting takes about ten times as long.
const raceEnabled = true
