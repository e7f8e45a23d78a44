//go:build race

package cpu

// raceEnabled: the references, every access of which is checked, take minutes
// over the larger shapes.
const raceEnabled = true
