package reach

const regStack = 31 // sp in struct user_pt_regs

const regThread = -1 // tpidr_el0 is in a set of its own

const swissGroup = 8 // hashbrown's groups of control bytes, with NEON
