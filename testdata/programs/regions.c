/*
 * Maps memory in every way there is, outside of malloc, and knows what it has.
 *
 * The answer has, beside target.h's (all zero: it never calls malloc),
 *
 *   "regions":[{"function":"…","kind":"…","live_bytes":…,"live_count":…,
 *     "mapped_bytes":…,"mapped_count":…,"unmapped_bytes":…,"resident_bytes":…},…]
 *   "child":{"pid":…,"regions":[…]}
 *
 * one for each function that maps, and those of a forked child, which lives
 * until this process has waited for the last time. live_count is in pieces: a mapping with a
 * hole counts as two. resident_bytes is what mincore(2) says of the pieces, or
 * -1 where it answers for the page cache instead (file).
 */
#include "target.h"
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>

#define MAX_PIECES 32

struct piece {
	char *start;
	uint64_t bytes;
};

/* A call site that maps. */
struct mapper {
	const char *function, *kind;
	uint64_t mapped_bytes, mapped_count, unmapped_bytes;
	struct piece pieces[MAX_PIECES];
	int count;
	int cached; /* mincore tells of the page cache */
};

static uint64_t page;

#define MAPPER(name, what) static struct mapper name = { .function = "map_" #name, .kind = what }
MAPPER(anon, "anon");
MAPPER(holed, "anon");
MAPPER(base, "anon");
MAPPER(over, "anon");
MAPPER(moved, "anon");
MAPPER(grown, "anon");
MAPPER(shrunk, "anon");
MAPPER(huge, "anon");
MAPPER(thread, "anon");
MAPPER(forked, "anon");
MAPPER(born, "anon");
MAPPER(file, "file");
MAPPER(shared, "shmem");
MAPPER(memory_file, "memfd");
MAPPER(segment, "shm");
MAPPER(increment, "brk");
MAPPER(break_to, "brk");

static struct mapper *all[] = {
	&anon, &holed, &base, &over, &moved, &grown, &shrunk, &huge, &thread, &forked, &born,
	&file, &shared, &memory_file, &segment, &increment, &break_to,
};

static void must(int ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	_exit(4);
}

/* holds notes that a mapper has one piece more. */
static void holds(struct mapper *m, void *start, uint64_t bytes)
{
	must(start != MAP_FAILED && m->count < MAX_PIECES, m->function);
	m->pieces[m->count].start = start;
	m->pieces[m->count++].bytes = bytes;
}

/* has_mapped counts a call that succeeded. */
static void has_mapped(struct mapper *m, void *start, uint64_t bytes)
{
	holds(m, start, bytes);
	m->mapped_count++;
	m->mapped_bytes += bytes;
}

/* loses takes pages out of the pieces of a mapper. */
static void loses(struct mapper *m, char *start, uint64_t bytes)
{
	for (int i = 0; i < m->count; i++) {
		struct piece *p = &m->pieces[i];
		char *end = p->start + p->bytes, *to = start + bytes;
		if (start < p->start || to > end)
			continue;
		m->unmapped_bytes += bytes;
		uint64_t above = end - to;
		p->bytes = start - p->start;
		if (p->bytes && above) {
			holds(m, to, above);
		} else if (above) {
			p->start = to;
			p->bytes = above;
		} else if (!p->bytes) {
			*p = m->pieces[--m->count];
		}
		return;
	}
	must(0, "loses");
}

static void touch_pages(char *start, uint64_t pages)
{
	for (uint64_t i = 0; i < pages; i++)
		start[i * page] = 1;
}

static void *plain(uint64_t bytes, int flags, int fd)
{
	return mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
}

#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)

/* Each of these calls the function that maps by itself, for the stack's sake. */

NOIPA char *map_anon(uint64_t bytes)
{
	char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, ANON, -1, 0);
	has_mapped(&anon, at, bytes);
	return at;
}

NOIPA char *map_holed(uint64_t bytes)
{
	char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, ANON, -1, 0);
	has_mapped(&holed, at, bytes);
	return at;
}

NOIPA char *map_base(uint64_t bytes)
{
	char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, ANON, -1, 0);
	has_mapped(&base, at, bytes);
	return at;
}

NOIPA char *map_over(char *where, uint64_t bytes)
{
	char *at = mmap(where, bytes, PROT_READ | PROT_WRITE, ANON | MAP_FIXED, -1, 0);
	loses(&base, at, bytes);
	has_mapped(&over, at, bytes);
	return at;
}

NOIPA char *map_moved(uint64_t bytes)
{
	char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, ANON, -1, 0);
	has_mapped(&moved, at, bytes);
	return at;
}

/* What mremap returns is its caller's, as of a realloc. */
NOIPA char *map_grown(char *was, uint64_t old, uint64_t bytes, void *where)
{
	int flags = MREMAP_MAYMOVE | (where ? MREMAP_FIXED : 0);
	char *at = mremap(was, old, bytes, flags, where);
	must(at != MAP_FAILED, "mremap");
	loses(&moved, was, old);
	has_mapped(&grown, at, bytes);
	return at;
}

NOIPA char *map_shrunk(char *was, uint64_t old, uint64_t bytes)
{
	char *at = mremap(was, old, bytes, 0);
	must(at == was, "mremap in place");
	loses(&grown, was, old);
	has_mapped(&shrunk, at, bytes);
	return at;
}

NOIPA char *map_huge(uint64_t bytes)
{
	char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, ANON, -1, 0);
	has_mapped(&huge, at, bytes);
	return at;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

NOIPA char *map_thread(uint64_t bytes)
{
	char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, ANON, -1, 0);
	pthread_mutex_lock(&lock);
	has_mapped(&thread, at, bytes);
	pthread_mutex_unlock(&lock);
	return at;
}

NOIPA char *map_forked(uint64_t bytes)
{
	char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, ANON, -1, 0);
	has_mapped(&forked, at, bytes);
	return at;
}

NOIPA char *map_born(uint64_t bytes)
{
	char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, ANON, -1, 0);
	has_mapped(&born, at, bytes);
	return at;
}

NOIPA char *map_file(int fd, uint64_t bytes)
{
	char *at = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
	has_mapped(&file, at, bytes);
	return at;
}

NOIPA char *map_shared(uint64_t bytes)
{
	char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	has_mapped(&shared, at, bytes);
	return at;
}

NOIPA char *map_memory_file(int fd, uint64_t bytes)
{
	char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	has_mapped(&memory_file, at, bytes);
	return at;
}

NOIPA char *map_segment(int id, uint64_t bytes)
{
	char *at = shmat(id, NULL, 0);
	has_mapped(&segment, at, bytes);
	return at;
}

NOIPA char *map_increment(uint64_t bytes)
{
	char *at = sbrk(bytes);
	has_mapped(&increment, at, bytes);
	return at;
}

NOIPA char *map_break_to(char *end, uint64_t bytes)
{
	must(brk(end + bytes) == 0, "brk");
	has_mapped(&break_to, end, bytes);
	return end;
}

static void in_pieces(void)
{
	for (int i = 0; i < 8; i++) {
		char *at = map_anon(16 * page);
		touch_pages(at, 8);
		if (i >= 6) {
			must(munmap(at, 16 * page) == 0, "munmap");
			loses(&anon, at, 16 * page);
		}
	}
	char *at = map_holed(16 * page);
	touch_pages(at, 16);
	must(munmap(at + 6 * page, 4 * page) == 0, "munmap");
	loses(&holed, at + 6 * page, 4 * page);
	must(munmap(at, 2 * page - 1) == 0, "munmap"); /* whole pages go */
	loses(&holed, at, 2 * page);

	at = map_base(16 * page);
	touch_pages(at, 16);
	touch_pages(map_over(at + 5 * page, 4 * page), 1);
}

static void moved_about(void)
{
	char *at = map_moved(4 * page);
	touch_pages(at, 4);
	char *room = plain(64 * page, ANON, -1);
	must(room != MAP_FAILED && munmap(room, 64 * page) == 0, "room");
	at = map_grown(at, 4 * page, 12 * page, room);
	touch_pages(at, 9);
	map_shrunk(at, 12 * page, 6 * page);
}

static void huge_pages(void)
{
	uint64_t size = 2 << 20;
	char *at = map_huge(3 * size);
	char *aligned = (char *)(((uintptr_t)at + size - 1) & ~(size - 1));
	must(madvise(aligned, size, MADV_HUGEPAGE) == 0 || errno == EINVAL, "madvise");
	aligned[0] = 1;
}

static void shared_memory(void)
{
	touch_pages(map_shared(8 * page), 3);
	int fd = memfd_create("regions", 0);
	must(fd >= 0 && ftruncate(fd, 8 * page) == 0, "memfd_create");
	touch_pages(map_memory_file(fd, 8 * page), 5);
	fd = open("/proc/self/exe", O_RDONLY);
	must(fd >= 0, "open");
	char *at = map_file(fd, 2 * page);
	target_sink = (void *)(uintptr_t)*(volatile char *)at;
	file.cached = 1;
	int id = shmget(IPC_PRIVATE, 5 * page, IPC_CREAT | 0600);
	must(id >= 0, "shmget");
	touch_pages(map_segment(id, 5 * page), 2);
	must(shmctl(id, IPC_RMID, NULL) == 0, "shmctl");
}

/* A segment that comes and goes: nobody can look how large it is. */
NOIPA void attach_and_detach(void)
{
	int id = shmget(IPC_PRIVATE, 7 * page, IPC_CREAT | 0600);
	must(id >= 0, "shmget");
	char *at = shmat(id, NULL, 0);
	must(at != (char *)-1 && shmdt(at) == 0 && shmctl(id, IPC_RMID, NULL) == 0, "shmdt");
}

static void program_break(void)
{
	char *at = map_increment(3 * page + 100);
	touch_pages(at, 3);
	must(sbrk(-(intptr_t)page) != (void *)-1, "sbrk");
	loses(&increment, at + 2 * page + 100, page);
	touch_pages(map_break_to(sbrk(0), 2 * page), 2);
}

static void *in_thread(void *unused)
{
	for (int i = 0; i < 5; i++)
		touch_pages(map_thread(3 * page), 3);
	return unused;
}

static void in_threads(void)
{
	pthread_t threads[2];
	for (int i = 0; i < 2; i++)
		must(pthread_create(&threads[i], NULL, in_thread, NULL) == 0, "pthread_create");
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
}

static int64_t resident(const struct mapper *m)
{
	static unsigned char state[4096];
	int64_t bytes = 0;
	if (m->cached)
		return -1;
	for (int i = 0; i < m->count; i++) {
		char *from = (char *)((uintptr_t)m->pieces[i].start & -page), *end = m->pieces[i].start + m->pieces[i].bytes;
		must(mincore(from, end - from, state) == 0, "mincore");
		for (char *at = from; at < end; at += page) {
			char *lo = at < m->pieces[i].start ? m->pieces[i].start : at, *hi = at + page < end ? at + page : end;
			bytes += state[(at - from) / page] & 1 ? hi - lo : 0;
		}
	}
	return bytes;
}

static void say_regions(void)
{
	say("\"regions\":[");
	for (size_t i = 0; i < COUNT_OF(all); i++) {
		uint64_t live = 0;
		for (int j = 0; j < all[i]->count; j++)
			live += all[i]->pieces[j].bytes;
		say("%s{\"function\":\"%s\",\"kind\":\"%s\",\"live_bytes\":%llu,\"live_count\":%d,\"mapped_bytes\":%llu,\"mapped_count\":%llu,\"unmapped_bytes\":%llu,\"resident_bytes\":%lld}",
		    i ? "," : "", all[i]->function, all[i]->kind, (unsigned long long)live, all[i]->count,
		    (unsigned long long)all[i]->mapped_bytes, (unsigned long long)all[i]->mapped_count,
		    (unsigned long long)all[i]->unmapped_bytes, (long long)resident(all[i]));
	}
	say("]");
}

/* The child has its parent's mappings, gives one up and makes another. */
static void run_child(int answer, int until)
{
	for (size_t i = 0; i < COUNT_OF(all); i++)
		all[i]->mapped_bytes = all[i]->mapped_count = all[i]->unmapped_bytes = 0;
	must(munmap(forked.pieces[0].start, 3 * page) == 0, "munmap");
	loses(&forked, forked.pieces[0].start, 3 * page);
	touch_pages(map_born(2 * page), 2);
	target_used = 0;
	say(",\"child\":{\"pid\":%d,", (int)getpid());
	say_regions();
	say("}");
	must(write(answer, target_text, target_used) == (ssize_t)target_used, "write");
	close(answer);
	char c;
	while (read(until, &c, 1) < 0 && errno == EINTR)
		;
	_exit(0);
}

int main(int argc, char **argv)
{
	target_begin(argc, argv);
	page = sysconf(_SC_PAGESIZE);
	in_pieces();
	moved_about();
	huge_pages();
	shared_memory();
	attach_and_detach();
	program_break();
	in_threads();
	touch_pages(map_forked(8 * page), 8);

	int answer[2], until[2];
	must(pipe(answer) == 0 && pipe(until) == 0, "pipe");
	pid_t child = fork();
	if (child == 0) {
		close(answer[0]);
		close(until[1]);
		run_child(answer[1], until[0]);
	}
	must(child > 0, "fork");
	close(answer[1]);
	target_answer("regions", 1, NULL, 0);
	say(",");
	say_regions();
	for (ssize_t n; (n = read(answer[0], target_text + target_used, sizeof(target_text) - target_used)) > 0;)
		target_used += n;
	target_end();
	close(until[1]);
	waitpid(child, NULL, 0);
	return 0;
}
