package reach

const regStack = 19 // rsp in struct user_regs_struct
