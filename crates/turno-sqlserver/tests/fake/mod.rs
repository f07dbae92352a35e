//! A server that speaks just enough TDS to be broken on purpose: it logs everybody in, and answers each request as a test
//! says. It knows no SQL and no rule of the queue: what is tested with it is the driver's side of a connection.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

const SQL_BATCH: u8 = 1;
const RPC: u8 = 3;
const RESPONSE: u8 = 4;
const LOGIN: u8 = 16;
const PRELOGIN: u8 = 18;

/// A value of a column.
#[derive(Clone)]
#[allow(dead_code, reason = "each test binary uses another part")]
pub enum Cell {
    Number(Option<i64>),
    Text(Option<&'static str>),
}

/// What the server does with one request.
#[derive(Clone)]
#[allow(dead_code, reason = "each test binary uses another part")]
pub enum Reply {
    /// A result set: names of columns, rows.
    Rows(Vec<&'static str>, Vec<Vec<Cell>>),
    /// No result set.
    Done,
    /// An error with this number and message.
    Error(u32, &'static str),
    /// A result set and then an error, as when a commit fails.
    RowsThenError(Vec<&'static str>, Vec<Vec<Cell>>, u32),
    /// The connection is closed instead of an answer.
    Cut,
    /// The connection is closed in the middle of an answer.
    CutHalfWay,
    /// The answer comes when the gate has a permit.
    After(Arc<Semaphore>, Box<Reply>),
}

type Script = dyn FnMut(&str) -> Reply + Send;

/// A fake server. It ends with the test's runtime.
#[allow(dead_code, reason = "each test binary uses another part")]
pub struct Fake {
    address: SocketAddr,
    pub seen: Arc<Mutex<Vec<String>>>,
    pub connections: Arc<AtomicUsize>,
    pub most_at_once: Arc<AtomicUsize>,
}

impl Fake {
    /// Listens on a free port; the script is asked for each request, whatever connection it comes by.
    pub async fn start(script: impl FnMut(&str) -> Reply + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let fake = Fake {
            address: listener.local_addr().expect("an address"),
            seen: Arc::default(),
            connections: Arc::default(),
            most_at_once: Arc::default(),
        };
        let script: Arc<Mutex<Script>> = Arc::new(Mutex::new(script));
        let (seen, connections, most) =
            (fake.seen.clone(), fake.connections.clone(), fake.most_at_once.clone());
        tokio::spawn(async move {
            let open = Arc::new(AtomicUsize::new(0));
            while let Ok((stream, _)) = listener.accept().await {
                connections.fetch_add(1, Ordering::SeqCst);
                most.fetch_max(open.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                let (script, seen, open) = (script.clone(), seen.clone(), open.clone());
                tokio::spawn(async move {
                    // A client that goes away is no error here.
                    drop(serve(stream, &script, &seen).await);
                    open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        fake
    }

    pub fn url(&self) -> String {
        format!("sqlserver://app:secret@{}/jobs?encrypt=false", self.address)
    }

    /// How many requests held this text.
    pub fn count(&self, text: &str) -> usize {
        self.seen.lock().expect("no holder panics").iter().filter(|request| request.contains(text)).count()
    }
}

async fn serve(
    mut stream: TcpStream,
    script: &Mutex<Script>,
    seen: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    loop {
        let (kind, body) = request(&mut stream).await?;
        match kind {
            PRELOGIN => send(&mut stream, &prelogin()).await?,
            LOGIN => send(&mut stream, &[login_ack(), done()].concat()).await?,
            SQL_BATCH | RPC => {
                let text = readable(&body);
                let reply = {
                    let reply = script.lock().expect("no holder panics")(&text);
                    seen.lock().expect("no holder panics").push(text);
                    reply
                };
                if !answer(&mut stream, reply).await? {
                    return Ok(());
                }
            }
            _ => return Ok(()),
        }
    }
}

/// One message, which may come in several packets.
async fn request(stream: &mut TcpStream) -> std::io::Result<(u8, Vec<u8>)> {
    let mut body = Vec::new();
    loop {
        let mut header = [0u8; 8];
        stream.read_exact(&mut header).await?;
        let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
        let mut packet = vec![0u8; length.saturating_sub(8)];
        stream.read_exact(&mut packet).await?;
        body.extend(packet);
        if header[1] & 1 == 1 {
            return Ok((header[0], body));
        }
    }
}

/// Whatever in a message is UTF-16 text, at either alignment.
fn readable(body: &[u8]) -> String {
    let text = |from: usize| {
        let units: Vec<u16> = body[from.min(body.len())..]
            .chunks_exact(2)
            .map(|unit| u16::from_le_bytes([unit[0], unit[1]]))
            .collect();
        String::from_utf16_lossy(&units)
    };
    text(0) + &text(1)
}

/// False if the connection is over.
async fn answer(stream: &mut TcpStream, mut reply: Reply) -> std::io::Result<bool> {
    while let Reply::After(gate, then) = reply {
        gate.acquire().await.expect("the gate is never closed").forget();
        reply = *then;
    }
    let bytes = match reply {
        Reply::Rows(columns, rows) => [table(&columns, &rows), done()].concat(),
        Reply::Done => done(),
        Reply::Error(number, message) => [error(number, message), done()].concat(),
        Reply::RowsThenError(columns, rows, number) => {
            [table(&columns, &rows), done_and_more(), error(number, "too late"), done()].concat()
        }
        Reply::Cut => return Ok(false),
        Reply::CutHalfWay => {
            let whole = packet(&[table(&["id"], &[vec![Cell::Number(Some(1))]]), done()].concat());
            stream.write_all(&whole[..whole.len() - 5]).await?;
            return Ok(false);
        }
        Reply::After(..) => unreachable!("unwrapped above"),
    };
    send(stream, &bytes).await?;
    Ok(true)
}

async fn send(stream: &mut TcpStream, tokens: &[u8]) -> std::io::Result<()> {
    stream.write_all(&packet(tokens)).await
}

fn packet(tokens: &[u8]) -> Vec<u8> {
    let length = u16::try_from(tokens.len() + 8).expect("a fake answers little");
    let [high, low] = length.to_be_bytes();
    [&[RESPONSE, 1, high, low, 0, 0, 1, 0][..], tokens].concat()
}

/// Version 16, and no encryption.
fn prelogin() -> Vec<u8> {
    let options = [0u8, 0, 11, 0, 6, 1, 0, 17, 0, 1, 0xff];
    [&options[..], &[16, 0, 0, 0, 0, 0], &[2]].concat()
}

fn login_ack() -> Vec<u8> {
    let body = [&[1u8, 0x74, 0, 0, 4][..], &short_text("fake"), &[16, 0, 0, 0]].concat();
    let length = u16::try_from(body.len()).expect("short");
    [&[0xad][..], &length.to_le_bytes(), &body].concat()
}

fn done() -> Vec<u8> {
    [&[0xfd][..], &[0, 0, 0, 0], &[0; 8]].concat()
}

fn done_and_more() -> Vec<u8> {
    [&[0xfd][..], &[1, 0, 0, 0], &[0; 8]].concat()
}

fn error(number: u32, message: &str) -> Vec<u8> {
    let units = u16::try_from(message.encode_utf16().count()).expect("short");
    let body = [
        &number.to_le_bytes()[..],
        &[1, 16],
        &units.to_le_bytes(),
        &utf16(message),
        &short_text("fake"),
        &short_text(""),
        &1u32.to_le_bytes(),
    ]
    .concat();
    let length = u16::try_from(body.len()).expect("short");
    [&[0xaa][..], &length.to_le_bytes(), &body].concat()
}

/// Columns are bigint or nvarchar by what stands in the first row.
fn table(columns: &[&str], rows: &[Vec<Cell>]) -> Vec<u8> {
    let count = u16::try_from(columns.len()).expect("few");
    let mut bytes = [&[0x81][..], &count.to_le_bytes()].concat();
    for (i, name) in columns.iter().enumerate() {
        bytes.extend([0, 0, 0, 0, 1, 0]);
        match rows.first().map(|row| &row[i]) {
            Some(Cell::Text(_)) => bytes.extend([0xe7, 0xa0, 0x0f, 0x09, 0x04, 0xd0, 0x00, 0x34]),
            _ => bytes.extend([0x26, 8]),
        }
        bytes.extend(short_text(name));
    }
    for row in rows {
        bytes.push(0xd1);
        for cell in row {
            match cell {
                Cell::Number(None) => bytes.push(0),
                Cell::Number(Some(number)) => {
                    bytes.push(8);
                    bytes.extend(number.to_le_bytes());
                }
                Cell::Text(None) => bytes.extend([0xff, 0xff]),
                Cell::Text(Some(text)) => {
                    let text = utf16(text);
                    bytes.extend(u16::try_from(text.len()).expect("short").to_le_bytes());
                    bytes.extend(text);
                }
            }
        }
    }
    bytes
}

fn short_text(text: &str) -> Vec<u8> {
    let units = u8::try_from(text.encode_utf16().count()).expect("short");
    [&[units][..], &utf16(text)].concat()
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}
