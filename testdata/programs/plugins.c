/*
 * Loads libraries that allocate at once:
 *
 *   PROGRAM run|attach brief      one after the other, each for as long as it takes
 *   PROGRAM run|attach command    one, and runs a command afterwards
 *   PROGRAM run|attach children   in children, one before and one after their parent has
 *                                 loaded another, which then lies where theirs does
 *   PROGRAM run|attach own        one with an allocator of its own (RTLD_DEEPBIND)
 *   PROGRAM run|attach lose       one that loses its blocks
 */
#include "target.h"

#include <dlfcn.h>
#include <sys/wait.h>

#define BLOCKS 5
#define SIZE   1000

static struct site first = {"first_take"}, second = {"second_take"}, shifted = {"shifted_take"}, own = {"own_take"};
static void *kept[4 * BLOCKS];
static unsigned kept_count;
static const char *folder;

static void *loaded(const char *name, int flags)
{
	char path[4096];
	snprintf(path, sizeof(path), "%s/libplugin_%s.so", folder, name);
	void *library = dlopen(path, RTLD_NOW | flags);
	if (!library)
		_exit(3);
	return library;
}

static void *function(void *library, const char *name, const char *what)
{
	char symbol[64];
	snprintf(symbol, sizeof(symbol), "%s_%s", name, what);
	void *f = dlsym(library, symbol);
	if (!f)
		_exit(4);
	return f;
}

/* All blocks of a library but the kept ones come and go; lost ones nobody knows. */
NOIPA void use(struct site *site, void *library, const char *name, int keep)
{
	void *(*take)(size_t) = (void *(*)(size_t))function(library, name, "take");
	void (*give)(void *) = (void (*)(void *))function(library, name, "give");

	for (int i = 0; i < BLOCKS; i++) {
		void *block = took(site, take(SIZE), SIZE);
		target_sink = NULL;
		if (i < keep) {
			kept[kept_count++] = block;
		} else if (keep >= 0) {
			gone(site, SIZE);
			give(block);
		}
	}
}

static void brief(void)
{
	void *library = loaded("first", 0);
	use(&first, library, "first", 3);
	dlclose(library);
	library = loaded("shifted", 0);
	use(&shifted, library, "shifted", 2);
	dlclose(library);
}

static void command(void)
{
	use(&first, loaded("first", 0), "first", 3);
	if (system("true"))
		_exit(5);
}

/* What a child does is counted here. */
static void child(void)
{
	pid_t pid = fork();
	if (pid == 0) {
		use(&first, loaded("first", 0), "first", 0);
		_exit(0);
	}
	first.alloc += BLOCKS;
	first.free += BLOCKS;
	first.alloc_bytes += BLOCKS * SIZE;
	waitpid(pid, NULL, 0);
}

static void children(void)
{
	child();
	use(&second, loaded("second", 0), "second", 0);
	child();
}

int main(int argc, char **argv)
{
	static struct site *sites[] = {&first, &second, &shifted, &own};
	static char self[4096];

	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		return 2;
	*strrchr(self, '/') = 0;
	folder = self;
	target_begin(argc, argv);
	const char *how = argc > 2 ? argv[2] : "brief";
	if (!strcmp(how, "brief"))
		brief();
	else if (!strcmp(how, "command"))
		command();
	else if (!strcmp(how, "children"))
		children();
	else if (!strcmp(how, "own"))
		use(&own, loaded("own", RTLD_DEEPBIND), "own", 3);
	else if (!strcmp(how, "lose"))
		use(&first, loaded("first", 0), "first", -1);
	else
		return 2;
	target_answer("plugins", 1, sites, COUNT_OF(sites));
	target_end();
	return 0;
}
