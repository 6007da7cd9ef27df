// Random system calls, seeded: sysfuzz SECONDS SEED. Children do the calls, so that one that kills
// or hangs itself costs nothing; the parent counts. Run inside a box, as root of it and as a user.
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static uint64_t state;
static _Atomic uint64_t *done;

static uint64_t next(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static long argument(char *page)
{
	static const long known[] = {0, 1, 2, -1, 3, 4095, 4096, 0x10000000, 0x7fffffff, -100};

	switch (next() % 4) {
	case 0:
		return known[next() % (sizeof(known) / sizeof(*known))];
	case 1:
		return (long)(page + next() % 4000);
	case 2:
		return (long)(next() % 64);
	default:
		return (long)next();
	}
}

// What would only end the child at once, send it to sleep, or stop the parent, and so waste the
// seconds.
static int is_dull(long number)
{
	static const long dull[] = {
		SYS_exit,
		SYS_exit_group,
		SYS_rt_sigreturn,
		SYS_rt_sigsuspend,
		SYS_execve,
		SYS_execveat,
		SYS_kill,
		SYS_tkill,
		SYS_tgkill,
		SYS_rt_sigqueueinfo,
		SYS_rt_tgsigqueueinfo,
#ifdef SYS_pause
		SYS_pause,
		SYS_vfork,
#endif
	};

	for (size_t i = 0; i < sizeof(dull) / sizeof(*dull); i++)
		if (number == dull[i])
			return 1;
	return 0;
}

static void child(unsigned seed)
{
	char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	signal(SIGALRM, SIG_DFL);
	state = seed * 2654435761u + 88172645463325252ull;
	alarm(2);
	for (int i = 0; i < 4000; i++) {
		long number = (long)(next() % 470);

		if (is_dull(number))
			continue;
		memcpy(page, &state, sizeof(state));
		++*done;
		syscall(number, argument(page), argument(page), argument(page), argument(page),
			argument(page), argument(page));
	}
	_exit(0);
}

// Outside of a box this would do to the host what it does: there every id is its own.
static int is_host(void)
{
	unsigned long inside = 0, outside = 0, count = 0;
	FILE *map = fopen("/proc/self/uid_map", "re");
	int got = map ? fscanf(map, "%lu %lu %lu", &inside, &outside, &count) : 0;

	if (map)
		fclose(map);
	return got != 3 || outside == inside;
}

int main(int argc, char **argv)
{
	long seconds = argc > 1 ? strtol(argv[1], NULL, 10) : 5;
	unsigned seed = argc > 2 ? (unsigned)strtol(argv[2], NULL, 10) : 1;
	time_t end = time(NULL) + seconds;

	if (is_host()) {
		fputs("sysfuzz: run this in a box\n", stderr);
		return 2;
	}
	done = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	// The children's random signals reach us too; only SIGKILL cannot be shrugged off.
	for (int i = 1; i < 32; i++)
		if (i != SIGCHLD)
			signal(i, SIG_IGN);
	while (time(NULL) < end) {
		pid_t pid = fork();
		int status;

		if (!pid)
			child(seed++);
		// A child may have stopped itself, or blocked its alarm: it gets two seconds.
		for (int i = 0; pid > 0 && waitpid(pid, &status, WNOHANG) == 0; i++) {
			if (i == 2000)
				kill(pid, SIGKILL);
			usleep(1000);
		}
		seed++;
	}
	printf("%llu calls\n", (unsigned long long)*done);
	return 0;
}
