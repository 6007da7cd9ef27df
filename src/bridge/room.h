#pragma once

#include "http/router.h"

// Sandboxes and their sessions and terminals.
route_fn bridge_room_new, bridge_room_end, bridge_room_running, bridge_room_session,
	bridge_room_session_end, bridge_room_pty;
// 501: buckets and tunnels.
route_fn bridge_room_mount, bridge_room_unmount, bridge_room_tunnel;
