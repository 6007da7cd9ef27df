// Command lines of the supervisor's children. The daemon gets every setting as a flag; the warden
// only those that it needs. Secrets are never in argv.
#include "serve/argv.h"

#include <stdlib.h>

#include "base/mem.h"

char **argv_daemon(const struct config *config)
{
	char **argv = mem_new((CONFIG_ARGS_MAX + 3) * sizeof(*argv));
	int count = 0;

	argv[count++] = mem_str("cove");
	argv[count++] = mem_str("daemon");
	config_args(config, argv, &count);
	return argv;
}

// The warden gets as little as it needs; see warden/warden.h.
char **argv_warden(const struct config *config)
{
	char **argv = mem_new(13 * sizeof(*argv));
	int count = 0;

	argv[count++] = mem_str("cove");
	argv[count++] = mem_str("warden");
	argv[count++] = mem_fmt("--data=%s", config->data);
	argv[count++] = mem_fmt("--run=%s", config->run);
	argv[count++] = mem_fmt("--uid=%u", (unsigned int)config->uid);
	argv[count++] = mem_fmt("--gid=%u", (unsigned int)config->gid);
	argv[count++] = mem_fmt("--fd-lock=%d", (int)config->fd_lock);
	argv[count++] = mem_fmt("--fd-holds=%d", (int)config->fd_holds);
	argv[count++] = mem_fmt("--pool-start=%llu", (unsigned long long)config->pool_start);
	argv[count++] = mem_fmt("--pool-max=%llu", (unsigned long long)config->pool_max);
	if (*config->disk)
		argv[count++] = mem_fmt("--disk=%s", config->disk);
	if (*config->steer)
		argv[count++] = mem_fmt("--steer=%s", config->steer);
	return argv;
}

void argv_free(char **argv)
{
	for (char **word = argv; *word; word++)
		free(*word);
	free(argv);
}
