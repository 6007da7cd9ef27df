// What the operator has set for registries.
#pragma once

#include "egress/outbound.h"

struct pull_settings {
	struct outbound outbound; // what registries may be reached by; borrowed, as are the texts
	struct str insecure, mirrors;
	uint64_t image_max; // bytes, unpacked
	uint64_t cache_max; // bytes of all images from which on cached ones go; 0: a fifth of the
			    // disk
	int64_t wait_ms;    // a create waits so long for a pull
	int blobs;	    // directory of partial blobs
	int builds;	    // of contexts and logs of builds
};
