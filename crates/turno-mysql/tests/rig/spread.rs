//! One address for several servers: each connection goes to the next of them.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;

/// Listens for as long as this process runs; answers where.
pub fn spread(servers: Vec<SocketAddr>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for (client, server) in listener.incoming().zip(servers.iter().cycle()) {
            // A server that cannot be reached ends the connection, as it would without us.
            if let (Ok(client), Ok(server)) = (client, TcpStream::connect(server)) {
                let _ = join(client, server);
            }
        }
    });
    address
}

fn join(client: TcpStream, server: TcpStream) -> io::Result<()> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    for (mut from, mut to) in [(client.try_clone()?, server.try_clone()?), (server, client)] {
        thread::spawn(move || {
            let _ = io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Both);
            let _ = from.shutdown(Shutdown::Both);
        });
    }
    Ok(())
}
