// What a lone sandbox feels of a neighbour that attacks the host.
#pragma once

#include "bench/net.h"

void neighbour_bench(struct net *net);
