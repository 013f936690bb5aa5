// Static data that looks like malloc's arenas: where the heap is searched from outside.
//
//   forged_arenas bins    every word is half of what an empty bin looks like
//   forged_arenas rings   many arenas, each of which leads into one long ring of threads' arenas
//
// It allocates two blocks, of which it prints the addresses, and then waits.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, WORDS = 16 << 17, MAINS = 512, THREADS = 3000, MIB = 1 << 20, TOP = 96, BINS = TOP + 16, NEXT = BINS + 16 * 127 + 16 };

static uintptr_t words[WORDS] __attribute__((aligned(PAGE))) = {1}; // in front of libc's data

static void bins(void) {
  for (size_t i = 0; i < WORDS; i += 2) words[i] = words[i + 1] = (uintptr_t)&words[i] - 16;
}

static void empty_bins(char *arena) {
  uintptr_t *bin = (uintptr_t *)(arena + BINS);
  for (int i = 0; i < 127; i++) bin[2 * i] = bin[2 * i + 1] = (uintptr_t)&bin[2 * i] - 16;
}

static void rings(void) {
  char *mains = (char *)words;
  char *room = mmap(0, (size_t)(THREADS + 1) * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) exit(1);
  char *threads = (char *)(((uintptr_t)room + MIB - 1) & -(uintptr_t)MIB);
  for (int i = 0; i < THREADS; i++) {
    char *heap = threads + (size_t)i * MIB, *arena = heap + 48;
    *(char **)heap = arena;
    *(char **)(arena + NEXT) = threads + (size_t)((i + 1) % THREADS) * MIB + 48;
  }
  for (int i = 0; i < MAINS; i++) {
    char *arena = mains + (size_t)i * PAGE;
    empty_bins(arena);
    *(char **)(arena + NEXT) = threads + 48;
  }
}

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  void *one = malloc(100), *two = malloc(3000);
  if (!strcmp(argv[1], "bins")) bins(); else rings();
  printf("%p %p\n", one, two);
  fflush(stdout);
  pause();
}
