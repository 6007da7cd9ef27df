// The API inside of a sandbox: shells, streams, terminals, files.
#pragma once

#include "bench/net.h"

// Makes a sandbox of its own and removes it. `rounds`: of what is lone.
void toolbox_bench(struct net *net, int rounds);
