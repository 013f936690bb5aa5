package reach

const regStack = 31 // sp in struct user_pt_regs

const swissGroup = 8 // hashbrown's groups of control bytes, with NEON
