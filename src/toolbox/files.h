// Files in the sandbox, one operation a request: JSON, event streams, raw bodies, archives.
#pragma once

#include "http/router.h"

#define FILES_CONTENT_MAX 33554432 // largest file that is sent inside JSON
#define FILES_BODY_MAX 50331648	   // largest JSON body that carries a file
