/*
 * What every test program shares: the modes, the tally of a call site, and
 * the answer that it prints about itself.
 *
 *   PROGRAM run [ARG...]      run straight through
 *   PROGRAM attach [ARG...]   print "ready PID", wait for a line on stdin (or
 *                             its end, or SIGUSR1), run, print the answer,
 *                             wait again, exit
 *
 * The answer is one JSON object on one line of stdout:
 *
 *   {"program":"…","pid":…,"final":true,
 *    "total":{COUNTS},"sites":[{"function":"…",COUNTS},…],…more of the program's own}
 *
 * COUNTS are exact for the calls that the program's own code makes (of C++
 * programs: through operator new and delete). What libc and ld.so allocate for
 * themselves (a thread's TLS vector, an exception) is not in them.
 *
 *   alloc          successful calls of malloc, calloc and the aligned ones
 *   realloc        successful calls of realloc and reallocarray, of which
 *   realloc_fresh    were given NULL (acted as malloc) and
 *   realloc_freed    returned NULL for size 0 (acted as free)
 *   failed         allocations and reallocations that returned no memory, of which
 *   realloc_failed   were reallocations (their block stays live)
 *   free           blocks of this site that free() released
 *   free_null      calls of free(NULL)
 *   alloc_bytes    sum of the sizes that alloc asked for
 *   realloc_bytes  sum of the new sizes that realloc asked for
 *   temporary      blocks freed by their own thread with no allocation in between
 *                  (counted by the programs temporary and churn only, 0 elsewhere)
 *   live_bytes, live_count   as the answer is printed
 *
 * A block belongs to the function that called malloc for it last: after
 * realloc, to the caller of realloc.
 *
 * Nothing in here allocates, in any mode: output goes through write(2) from a
 * static buffer.
 */
#ifndef TARGET_H
#define TARGET_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef __cplusplus
#define NOIPA __attribute__((noipa, used))
extern "C" {
#else
#define NOIPA __attribute__((noipa, used))
#endif

/* A call site: all blocks that one function allocates. */
struct site {
	const char *function;
	uint64_t alloc, realloc, realloc_fresh, realloc_freed;
	uint64_t failed, realloc_failed;
	uint64_t free, free_null;
	uint64_t alloc_bytes, realloc_bytes;
	uint64_t temporary;
	uint64_t live_bytes, live_count;
};

/* Where results go that the compiler must not drop. */
static void *volatile target_sink;

/* took counts a call of an allocating function at site s and returns its result. */
static inline __attribute__((always_inline)) void *
took(struct site *s, void *block, uint64_t size)
{
	target_sink = block;
	if (block == NULL) {
		s->failed++;
		return NULL;
	}
	s->alloc++;
	s->alloc_bytes += size;
	s->live_count++;
	s->live_bytes += size;
	return block;
}

/* gone counts the free of a block of site s; the caller calls free itself, for the stack's sake. */
static inline __attribute__((always_inline)) void
gone(struct site *s, uint64_t size)
{
	s->free++;
	s->live_count--;
	s->live_bytes -= size;
}

/*
 * resized counts a call of realloc or reallocarray made at site s for a block
 * of old_size bytes that belonged to site from (NULL: there was no block).
 */
static inline __attribute__((always_inline)) void *
resized(struct site *s, struct site *from, uint64_t old_size, void *block, uint64_t size)
{
	target_sink = block;
	if (block == NULL && size != 0) {
		s->failed++;
		s->realloc_failed++;
		return NULL;
	}
	s->realloc++;
	s->realloc_bytes += size;
	if (from) {
		from->live_count--;
		from->live_bytes -= old_size;
	} else {
		s->realloc_fresh++;
	}
	if (block == NULL) {
		s->realloc_freed++;
		return NULL;
	}
	s->live_count++;
	s->live_bytes += size;
	return block;
}

static char target_text[65536];
static size_t target_used;
static int target_attach;
static volatile sig_atomic_t target_signalled;

static inline __attribute__((format(printf, 1, 2))) void
say(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	int n = vsnprintf(target_text + target_used, sizeof(target_text) - target_used, format, args);
	va_end(args);
	if (n > 0 && target_used + (size_t)n < sizeof(target_text))
		target_used += (size_t)n;
}

/* flush_said writes what say collected, in one write where it fits a pipe. */
static inline void flush_said(void)
{
	size_t done = 0;
	while (done < target_used) {
		ssize_t n = write(STDOUT_FILENO, target_text + done, target_used - done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	target_used = 0;
}

static inline void target_on_signal(int number)
{
	(void)number;
	target_signalled = 1;
}

/* target_wait waits, in attach mode only, for a line on stdin, its end, or SIGUSR1. */
static inline void target_wait(void)
{
	if (!target_attach)
		return;
	sigset_t usr1, before;
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	sigprocmask(SIG_BLOCK, &usr1, &before);
	for (;;) {
		if (target_signalled)
			break;
		struct pollfd in;
		in.fd = STDIN_FILENO;
		in.events = POLLIN;
		int n = ppoll(&in, 1, NULL, &before);
		if (n < 0)
			continue; /* EINTR: look at the flag */
		char c;
		ssize_t got = read(STDIN_FILENO, &c, 1);
		if (got == 0 || (got == 1 && c == '\n') || (got < 0 && errno != EINTR && errno != EAGAIN))
			break;
	}
	target_signalled = 0;
	sigprocmask(SIG_SETMASK, &before, NULL);
}

/* target_begin reads the mode and, in attach mode, waits for the tracer. */
static inline void target_begin(int argc, char **argv)
{
	if (argc < 2 || (strcmp(argv[1], "run") && strcmp(argv[1], "attach"))) {
		static const char usage[] = "usage: PROGRAM run|attach [ARG...]\n";
		if (write(STDERR_FILENO, usage, sizeof(usage) - 1) < 0)
			_exit(3);
		_exit(2);
	}
	target_attach = strcmp(argv[1], "attach") == 0;
	struct sigaction action;
	memset(&action, 0, sizeof(action));
	action.sa_handler = target_on_signal;
	sigaction(SIGUSR1, &action, NULL);
	if (target_attach) {
		say("ready %d\n", (int)getpid());
		flush_said();
	}
	target_wait();
}

/* target_argument returns argument i after the mode as a number, or fallback. */
static inline long target_argument(int argc, char **argv, int i, long fallback)
{
	return argc > 2 + i ? atol(argv[2 + i]) : fallback;
}

static inline void say_counts(const struct site *s)
{
#define SAY(field) say("\"" #field "\":%llu,", (unsigned long long)s->field)
	SAY(alloc);
	SAY(realloc);
	SAY(realloc_fresh);
	SAY(realloc_freed);
	SAY(failed);
	SAY(realloc_failed);
	SAY(free);
	SAY(free_null);
	SAY(alloc_bytes);
	SAY(realloc_bytes);
	SAY(temporary);
	SAY(live_bytes);
#undef SAY
	say("\"live_count\":%llu", (unsigned long long)s->live_count);
}

/* target_answer starts the answer: everything but the closing brace. */
static inline void target_answer(const char *program, int final, struct site **sites, size_t count)
{
	struct site total;
	memset(&total, 0, sizeof(total));
	for (size_t i = 0; i < count; i++) {
#define ADD(field) total.field += sites[i]->field
		ADD(alloc);
		ADD(realloc);
		ADD(realloc_fresh);
		ADD(realloc_freed);
		ADD(failed);
		ADD(realloc_failed);
		ADD(free);
		ADD(free_null);
		ADD(alloc_bytes);
		ADD(realloc_bytes);
		ADD(temporary);
		ADD(live_bytes);
		ADD(live_count);
#undef ADD
	}
	say("{\"program\":\"%s\",\"pid\":%d,\"final\":%s,\"total\":{", program, (int)getpid(), final ? "true" : "false");
	say_counts(&total);
	say("},\"sites\":[");
	for (size_t i = 0; i < count; i++) {
		say("%s{\"function\":\"%s\",", i ? "," : "", sites[i]->function);
		say_counts(sites[i]);
		say("}");
	}
	say("]");
}

/* target_end closes the answer, prints it, and waits in attach mode. */
static inline void target_end(void)
{
	say("}\n");
	flush_said();
	target_wait();
}

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#ifdef __cplusplus
}
#endif
#endif
