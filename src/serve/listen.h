// The supervisor's listeners: of the API, of previews, and of local users. They are opened once and
// outlive daemons and binaries, so that nobody who knocks meanwhile is turned away.
#pragma once

#include "serve/config.h"
#include "serve/reexec.h"

struct listeners {
	int fds[2 * REEXEC_LISTENERS];
	int count;
	int previews; // the last so many of them are for previews
	char url[128];
	int users;	  // the Unix socket RUN/api.sock; 0: there is none
	char socket[128]; // its path
};

// Opens what the configuration names; its addresses become those that are bound, with real ports,
// and fd_listen and fd_preview say by which descriptors. CONFLICT port_taken, INVALID bad_config.
fallible listen_open(struct config *config, struct listeners *out);
// The same with what the last image had open.
fallible listen_again(struct config *config, const struct reexec *reexec, struct listeners *out);
// For the next one.
void listen_renew(const struct config *config, const struct listeners *listeners,
		  struct reexec *out);
