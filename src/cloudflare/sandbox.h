#pragma once

#include "http/router.h"

// Sandboxes, their sessions and terminals.
route_fn cloudflare_sandbox_new, cloudflare_sandbox_end, cloudflare_sandbox_running,
	cloudflare_sandbox_session, cloudflare_sandbox_session_end, cloudflare_sandbox_pty;
// 501: buckets and tunnels.
route_fn cloudflare_sandbox_mount, cloudflare_sandbox_unmount, cloudflare_sandbox_tunnel;
