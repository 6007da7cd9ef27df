// The supervisor's listeners: API, previews, local users. They are opened once and outlive daemons
// and binaries, so that clients wait in the backlog during a restart.
#pragma once

#include "serve/config.h"
#include "serve/reexec.h"

struct listeners {
	int fds[2 * REEXEC_LISTENERS];
	int count;
	int previews; // the last ones are for previews
	char url[128];
	int users;	  // the Unix socket RUN/api.sock; 0: none
	char socket[128]; // its path
};

// Opens the configured addresses and replaces them in the configuration by the bound ones, with
// real ports; fd_listen and fd_preview get the descriptors. CONFLICT port_taken, INVALID
// bad_config.
fallible listen_open(struct config *config, struct listeners *out);
// The same with the descriptors of the last image.
fallible listen_again(struct config *config, const struct reexec *reexec, struct listeners *out);
// Fills in the state for the next image.
void listen_renew(const struct config *config, const struct listeners *listeners,
		  struct reexec *out);
