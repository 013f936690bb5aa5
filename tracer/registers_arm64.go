package tracer

// registersBytes is the size of struct user_pt_regs, with which struct pt_regs begins.
const registersBytes = 272
