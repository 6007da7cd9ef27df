// What the way out of a sandbox costs: a connection, bytes, and the making of it.
#pragma once

#include "bench/net.h"

void out_bench(struct net *net, int rounds);
