#pragma once

#include "bench/net.h"

// `net` is connected anew on the way.
void recovery_bench(struct net *net, int count);
