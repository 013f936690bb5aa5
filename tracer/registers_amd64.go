package tracer

// registersBytes is the size of struct pt_regs.
const registersBytes = 168
