// What a preview costs: requests and bytes through it, beside a connection to the same server in
// its own network, and beside nginx in front of another copy of it.
#pragma once

#include "bench/net.h"

void preview_bench(struct net *net, int has_nginx);
int preview_serve(int port);	   // the server itself: bench serve PORT
int preview_enter(const char *id); // the network namespace of a sandbox; the caller closes it
