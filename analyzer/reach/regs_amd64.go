package reach

const regStack = 19 // rsp in struct user_regs_struct

const regThread = 21 // fs_base

const swissGroup = 16 // hashbrown's groups of control bytes, with SSE2
