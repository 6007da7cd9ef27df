// Keys and tenants.
#pragma once

#include "cli/call.h"

fallible keys_create(struct call *call);
fallible keys_ls(struct call *call);
fallible keys_rm(struct call *call);
fallible keys_tenant_set(struct call *call);
fallible keys_tenant_ls(struct call *call);
fallible keys_tenant_rm(struct call *call);
