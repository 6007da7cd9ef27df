// The entry point of the one binary. The first argument selects the role: supervisor (`serve`), one
// of its two children (daemon, warden), or a verb of the command line.
#include <string.h>

#include "cli/cli.h"
#include "serve/config.h"
#include "serve/daemon.h"
#include "serve/serve.h"
#include "warden/warden.h"

// Asking for help is the command line's business, whatever the verb.
static int asks_help(int argc, char **argv)
{
	for (int i = 2; i < argc; i++)
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
			return 1;
	return 0;
}

int main(int argc, char **argv)
{
	const char *role = argc > 1 ? argv[1] : "";

	if (!strcmp(role, "serve") && !asks_help(argc, argv))
		return serve_main(argc, argv);
	if (!strcmp(role, "warden"))
		return warden_main(argc - 2, argv + 2);
	if (!strcmp(role, "daemon"))
		return daemon_main(argc, argv);
	return cli_main(argc, argv, config_settings());
}
