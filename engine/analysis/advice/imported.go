package advice

// These texts stand in place of what an imported trace does not hold.
const (
	NoBatches   = "which batch was late, and which sample, is not in a trace"
	NoOperators = "the trace has no operators, or too many for a table"
)
