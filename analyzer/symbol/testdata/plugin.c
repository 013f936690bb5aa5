/* A shared object with one function under several names. */
__attribute__((noinline)) int __plugin_internal(int x) { return x * 3 + 1; }
int plugin_work(int x) __attribute__((weak, alias("__plugin_internal")));
int plugin_work_by_a_longer_name(int x) __attribute__((alias("__plugin_internal")));
static int local(int x) __attribute__((used, alias("__plugin_internal")));
