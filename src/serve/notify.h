// Messages to a service manager that set NOTIFY_SOCKET, as in sd_notify(3).
#pragma once

// "READY=1", "STOPPING=1": one datagram. Does nothing without NOTIFY_SOCKET.
void notify_send(const char *text);
