/* Loads the shared object given, prints the address of its plugin_work; at
   each line of input unloads it, prints that, and waits for the end. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	void *plugin = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
	if (!plugin)
		return 1;
	printf("%p\n", dlsym(plugin, "plugin_work"));
	fflush(stdout);
	if (getchar() != EOF) {
		dlclose(plugin);
		printf("unloaded\n");
		fflush(stdout);
	}
	while (getchar() != EOF)
		;
	return 0;
}
