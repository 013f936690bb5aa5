/*
 * The bundled service of `make demo`: it serves made-up requests, and
 *
 *   leaks at one site    parse_header forgets a 256-byte copy a request, 64 KiB/s
 *   caches at a second   cache_insert keeps pages until the cache is full, 4 MiB after 4 s
 *   churns at a third    render_page allocates and frees row after row
 *
 *   demo_service [SECONDS]     until SIGTERM, or for SECONDS
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NOIPA           __attribute__((noipa))
#define REQUESTS_SECOND 256
#define HEADER_SIZE     256
#define CACHE_SLOTS     1024
#define PAGE_BYTES      4096
#define ROWS            40

static char *volatile cache[CACHE_SLOTS]; /* volatile: nobody reads it, so the compiler would drop it */
static unsigned cache_used;
static volatile sig_atomic_t stopped;
static volatile uint64_t checksum;

static void on_signal(int number)
{
	(void)number;
	stopped = 1;
}

/* The leak: the copy of the header is used and never freed. */
NOIPA size_t parse_header(const char *request)
{
	char *header = malloc(HEADER_SIZE);
	if (!header)
		return 0;
	snprintf(header, HEADER_SIZE, "parsed: %s", request);
	memset(header + 64, 'h', HEADER_SIZE - 64);
	return strlen(request) + (size_t)header[64];
}

/* The cache: it fills and stops, and all of it can be reached. */
NOIPA void cache_insert(unsigned key)
{
	if (cache_used == CACHE_SLOTS)
		return;
	char *page = malloc(PAGE_BYTES);
	if (!page)
		return;
	memset(page, (int)key, PAGE_BYTES);
	cache[cache_used++] = page;
}

/* The churn: short-lived rows. */
NOIPA uint64_t render_page(unsigned key)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < ROWS; i++) {
		size_t size = 32 + (key * 31 + i * 7) % 480;
		char *row = malloc(size);
		if (!row)
			continue;
		memset(row, (int)i, size);
		sum += (unsigned char)row[size / 2];
		free(row);
	}
	return sum;
}

NOIPA void handle_request(unsigned number)
{
	char request[64];
	snprintf(request, sizeof(request), "GET /page/%u", number % 5000);
	checksum += parse_header(request);
	cache_insert(number);
	checksum += render_page(number);
}

/* serve handles requests at a fixed rate, catching up after a delay. */
NOIPA void serve(long seconds)
{
	struct timespec next;
	unsigned long limit = seconds > 0 ? (unsigned long)seconds * REQUESTS_SECOND : ~0UL;
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (unsigned long number = 0; !stopped && number < limit; number++) {
		handle_request((unsigned)number);
		next.tv_nsec += 1000000000L / REQUESTS_SECOND;
		if (next.tv_nsec >= 1000000000L) {
			next.tv_nsec -= 1000000000L;
			next.tv_sec++;
		}
		while (!stopped && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL) == EINTR) {
		}
	}
}

int main(int argc, char **argv)
{
	struct sigaction action;
	memset(&action, 0, sizeof(action));
	action.sa_handler = on_signal;
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	serve(argc > 1 ? atol(argv[1]) : 0);
	return 0;
}
