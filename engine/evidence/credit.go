package evidence

import "fmt"

// Settings says what kinds of settings two stretches differ in, combined by |.
type Settings uint8

const (
	Loader Settings = 1 << iota // those that leave the device's work in a step as it is
	Engine                      // those that change it: precision, capture, batch size, …
)

// Credit is what a change between two stretches is put down to.
type Credit uint8

const (
	Nobody  Credit = iota // nothing is known to have changed
	Setting               // the settings that differ
	Host                  // the device or the host, which changed by itself
)

// Credit puts the change down to what explains it. The device's busy time per sample
// is the witness: settings of the loader do not change the device's work, so when
// busy time changed although only they differ, the device or host did, and no
// setting gets the credit for what became of the throughput.
func (c *Comparison) Credit(differ Settings) Credit {
	throughput, busy := c.Throughput.Answer == Different, c.Busy.Answer == Different
	switch {
	case differ&Engine != 0 && throughput:
		return Setting
	case differ&Engine != 0:
		return Nobody
	case busy, differ == 0 && throughput:
		return Host
	case throughput:
		return Setting
	}
	return Nobody
}

// Told is the sentence for a change that is the host's, empty for any other.
func (c *Comparison) Told(differ Settings) string {
	if c.Credit(differ) != Host {
		return ""
	}
	if c.Busy.Answer != Different {
		return fmt.Sprintf("the throughput changed by %v under equal settings: the host changed", &c.Throughput)
	}
	return fmt.Sprintf("busy time per step changed by %v though no engine setting did: the device or host changed", &c.Busy)
}
