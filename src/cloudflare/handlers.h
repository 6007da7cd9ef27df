// Handlers of the route table in bridge.c, by the file that has them.
#pragma once

#include "http/router.h"

// exec.c
route_fn bridge_exec;

// file.c
route_fn bridge_file_read, bridge_file_write, bridge_file_persist, bridge_file_hydrate;

// rpc.c
route_fn cloudflare_rpc;

// sandbox.c
route_fn cloudflare_sandbox_new, cloudflare_sandbox_end, cloudflare_sandbox_running,
	cloudflare_sandbox_session, cloudflare_sandbox_session_end, cloudflare_sandbox_pty,
	cloudflare_sandbox_mount, cloudflare_sandbox_unmount, cloudflare_sandbox_tunnel;

// ws.c
route_fn cloudflare_ws;
