#include "bench/stat.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int broken;

double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

void samples_add(struct samples *s, double value)
{
	if (s->count == s->room) {
		s->room = s->room ? s->room * 2 : 256;
		s->at = realloc(s->at, s->room * sizeof(*s->at));
		if (!s->at)
			err(1, "memory");
	}
	s->at[s->count++] = value;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double samples_pct(struct samples *s, double pct)
{
	if (!s->count)
		return 0;
	qsort(s->at, s->count, sizeof(*s->at), by_value);
	return s->at[(size_t)((double)(s->count - 1) * pct / 100)];
}

double spawn_ms(char *const argv[])
{
	posix_spawn_file_actions_t quiet;
	double start;
	pid_t pid;
	int status;

	posix_spawn_file_actions_init(&quiet);
	posix_spawn_file_actions_addopen(&quiet, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", O_WRONLY, 0);
	start = now_ms();
	errno = posix_spawnp(&pid, argv[0], &quiet, NULL, argv, environ);
	if (errno)
		err(1, "spawn %s", argv[0]);
	waitpid(pid, &status, 0);
	start = now_ms() - start;
	posix_spawn_file_actions_destroy(&quiet);
	if (status)
		errx(1, "%s ended with status %#x", argv[0], status);
	return start;
}

double bare_ms(const char *path)
{
	char *const argv[] = {(char *)path, NULL};
	double start = now_ms();
	int status = 0;
	pid_t pid;

	errno = posix_spawn(&pid, path, NULL, NULL, argv, environ);
	if (errno)
		err(1, "spawn %s", path);
	waitpid(pid, &status, 0);
	start = now_ms() - start;
	if (status)
		errx(1, "%s ended with status %#x", path, (unsigned)status);
	return start;
}

void row(const char *name, struct samples *s)
{
	if (s->count)
		printf("  %-44s n=%-5zu p50 %9.3f ms   p95 %9.3f ms\n", name, s->count,
		       samples_pct(s, 50), samples_pct(s, 95));
	else
		printf("  %-44s not on this machine\n", name);
	fflush(stdout);
}

void promise(const char *id, double value, double limit, int at_most, const char *unit)
{
	int kept = at_most ? value <= limit : value >= limit;

	broken += !kept;
	printf("%s %-34s %10.3f %s %s %.3f\n", kept ? "ok  " : "MISS", id, value, unit,
	       at_most ? "<=" : ">=", limit);
	fflush(stdout);
}

int promises_broken(void)
{
	return broken;
}
