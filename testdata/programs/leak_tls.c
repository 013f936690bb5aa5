/* Loaded by leak_corpus: thread-local memory too large for what the loader reserves. */
static __thread char leak_room[64 << 10];
static __thread void *leak_slot;

void **leak_tls_slot(void)
{
	leak_room[0] = 1;
	return &leak_slot;
}
