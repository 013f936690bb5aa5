package reach

const regStack = 31 // sp in struct user_pt_regs
