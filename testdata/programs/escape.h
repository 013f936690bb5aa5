/* The interface of libescape.so: an allocator whose calls can be left without returning. */
#ifndef ESCAPE_H
#define ESCAPE_H

#include <setjmp.h>

#ifdef __cplusplus
extern "C" {
#endif
/* escape_jump makes this thread's next malloc longjmp(buffer, 1) instead of returning. */
void escape_jump(jmp_buf *buffer);
/* escape_exit makes this thread's next malloc call pthread_exit. */
void escape_exit(void);
#ifdef __cplusplus
}
#endif
#endif
