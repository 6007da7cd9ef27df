// Daytona's API, for its official SDK: DAYTONA_API_URL=http://HOST:8484/daytona.
#pragma once

#include "http/router.h"

extern const struct route daytona_routes[]; // ends with a row whose method is NULL
