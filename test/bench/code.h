// Code in a sandbox: first cells, cold and warm, and those that follow.
#pragma once

#include "bench/net.h"

// Makes sandboxes of its own and removes them. BENCH_DRIVE names the directory of the drivers.
void code_bench(struct net *net, int rounds);
