/*
 * Counts the signals that it gets: prints "ready SIGNAL", with the signal to
 * send (a real-time one: each counts), and at the end of stdin "got COUNT".
 */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static volatile sig_atomic_t got;

static void count(int signal)
{
	(void)signal;
	got++;
}

int main(void)
{
	struct sigaction action = {.sa_handler = count, .sa_flags = SA_RESTART};
	if (sigaction(SIGRTMIN + 3, &action, NULL))
		return 3;
	printf("ready %d\n", SIGRTMIN + 3);
	fflush(stdout);
	char c;
	while (read(0, &c, 1) > 0)
		;
	printf("got %d\n", (int)got);
	return 0;
}
