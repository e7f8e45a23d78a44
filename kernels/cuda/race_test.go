//go:build race

package cuda

// raceEnabled: interpreting takes about ten times as long.
const raceEnabled = true
